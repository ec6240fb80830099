// Everything here is an extra: each page works without it. No evaluated strings, no inline handlers.

const root = document.documentElement;
root.dataset.enhanced = "";

const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
const scrollBehaviour = () => (reducedMotion.matches ? "auto" : "smooth");

// --- Times in the reader's own zone -------------------------------------------------------------------------------

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const seconds = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function localise(scope) {
  for (const element of scope.querySelectorAll("time[data-time]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    element.title = exact.format(at);
    if (element.dataset.time === "clock") element.textContent = clock.format(at);
    if (element.dataset.time === "exact") element.textContent = seconds.format(at);
  }
}

// --- One polite status line, never more than once a second ----------------------------------------------------------

let said = "";
let sayTimer = 0;

function say(text) {
  said = text;
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => {
    const status = document.getElementById("status");
    if (status) status.textContent = said;
  }, 1000);
}

// --- Copying --------------------------------------------------------------------------------------------------------

async function copy(button) {
  const text = button.parentElement.querySelector("code")?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    say("Copied");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.parentElement.querySelector("code"));
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

document.addEventListener("click", (event) => {
  const copying = event.target.closest("[data-copy]");
  if (copying) copy(copying);
  if (event.target.closest("[data-open-help]")) document.getElementById("help")?.showModal();
  for (const menu of document.querySelectorAll("[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// --- Keyboard -------------------------------------------------------------------------------------------------------

const shortcutsOn = () => document.body.dataset.shortcuts === "on";
const stops = () => [...document.querySelectorAll("[data-stop]")];
let pendingG = false;

function chosen() {
  return document.querySelector("[data-stop][data-selected]") ?? document.activeElement?.closest("[data-stop]");
}

function choose(element) {
  for (const other of document.querySelectorAll("[data-selected]")) delete other.dataset.selected;
  element.dataset.selected = "";
  const link = element.querySelector("[data-stop-focus]");
  link?.focus({ preventScroll: true });
  element.scrollIntoView({ block: "start", behavior: scrollBehaviour() });
}

function move(step) {
  const all = stops();
  if (all.length === 0) return;
  const current = chosen();
  let index = current ? all.indexOf(current) + step : firstVisible(all);
  index = Math.max(0, Math.min(all.length - 1, index));
  choose(all[index]);
}

function firstVisible(all) {
  const index = all.findIndex((element) => element.getBoundingClientRect().bottom > 80);
  return index < 0 ? 0 : index;
}

function forkChosen() {
  const element = chosen();
  const control = element?.querySelector("[data-fork]");
  if (control) {
    control.click();
  } else if (element) {
    say(element.querySelector("[data-fork-reason]")?.textContent.trim() || "This cannot be forked.");
  }
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  f: forkChosen,
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => document.getElementById("help")?.showModal(),
};
const afterG = { s: () => document.body.dataset.home, f: () => document.body.dataset.forks };

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const menu of document.querySelectorAll("[data-menu][open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
    return;
  }
  const typing = event.target.closest("input, textarea, select, dialog, [contenteditable]");
  if (!shortcutsOn() || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (pendingG) {
    pendingG = false;
    const target = afterG[event.key]?.();
    if (target) {
      event.preventDefault();
      window.location.assign(target);
      return;
    }
  }
  if (event.key === "g") {
    pendingG = true;
    setTimeout(() => (pendingG = false), 1000);
    return;
  }
  if (Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
});

// --- htmx: quiet in hidden tabs, folds stay open, focus does not get lost --------------------------------------------

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.elt.hasAttribute("data-poll")) event.preventDefault();
});

let openFolds = new Set();
const foldsIn = (element) => [...element.querySelectorAll("details[open][id]")].map((fold) => fold.id);

function beforeSwap(target) {
  openFolds = new Set([...openFolds, ...foldsIn(target)]);
}

function afterSwap(target) {
  for (const id of openFolds) {
    const fold = document.getElementById(id);
    if (fold) fold.open = true;
  }
  openFolds.clear();
  localise(target.parentElement ?? document);
}

document.addEventListener("htmx:beforeSwap", (event) => {
  // A refused form answers 422 or 409 with the page that says why.
  if ([409, 422].includes(event.detail.xhr.status)) {
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  }
  beforeSwap(event.detail.target);
});
document.addEventListener("htmx:oobBeforeSwap", (event) => beforeSwap(event.detail.target));
document.addEventListener("htmx:oobAfterSwap", (event) => afterSwap(event.detail.target));
document.addEventListener("htmx:afterSwap", (event) => {
  afterSwap(document.body);
  const follow = document.querySelector("[data-follow]");
  if (follow) window.location.assign(follow.dataset.open);
  const news = document.querySelector("[data-announce]");
  if (news && news.dataset.announce !== said) say(news.dataset.announce);
  if (document.activeElement === document.body) document.querySelector("[data-focus-after-swap]")?.focus();
});
document.addEventListener("htmx:sendError", () => say("The server could not be reached. Nothing is sent twice; trying again."));

// --- A fork is acknowledged once it is shown: tried until it is done, here or on any later page ------------------------

const PENDING = "forkhost.acknowledgements";
const ACKNOWLEDGE_DEADLINE = 10_000;
const ACKNOWLEDGE_AGAIN = [1_000, 2_000, 5_000, 10_000, 30_000];
const acknowledging = new Set();

function pendingAcknowledgements() {
  try {
    return new Set(JSON.parse(localStorage.getItem(PENDING) ?? "[]"));
  } catch {
    return new Set();
  }
}

function keepPending(address, pending) {
  const all = pendingAcknowledgements();
  pending ? all.add(address) : all.delete(address);
  try {
    localStorage.setItem(PENDING, JSON.stringify([...all]));
  } catch {
    // Without a store, the address of the fork's page alone brings it back.
  }
}

async function acknowledgeOnce(address) {
  try {
    const answer = await fetch(address, {
      method: "POST",
      headers: JSON.parse(document.body.getAttribute("hx-headers")),
      redirect: "manual",
      signal: AbortSignal.timeout(ACKNOWLEDGE_DEADLINE),
    });
    // 404 and 409: nothing to acknowledge for this reader. A redirect leads to the sign-in: later.
    return answer.ok || [404, 409].includes(answer.status);
  } catch {
    return false;
  }
}

async function acknowledge(address) {
  if (acknowledging.has(address)) return;
  acknowledging.add(address);
  keepPending(address, true);
  for (let tries = 0; !(await acknowledgeOnce(address)); tries += 1) {
    const pause = ACKNOWLEDGE_AGAIN[Math.min(tries, ACKNOWLEDGE_AGAIN.length - 1)];
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  keepPending(address, false);
  acknowledging.delete(address);
  const here = new URL(window.location.href);
  if (address.includes(here.searchParams.get("opened"))) {
    here.searchParams.delete("opened");
    history.replaceState(history.state, "", here);
  }
}

function acknowledgeWhatIsShown() {
  if (document.hidden) return;
  const shown = document.querySelector("[data-acknowledge]")?.dataset.acknowledge;
  if (shown) acknowledge(shown);
  for (const address of pendingAcknowledgements()) acknowledge(address);
}

document.addEventListener("visibilitychange", acknowledgeWhatIsShown);
document.addEventListener("submit", (event) => {
  const address = event.target.dataset.open;
  if (!address) return;
  event.preventDefault();
  window.location.assign(address);
});

// --- Start ----------------------------------------------------------------------------------------------------------

localise(document);
acknowledgeWhatIsShown();
for (const button of document.querySelectorAll("[data-open-help]")) button.hidden = false;
