"""The promises of the design as numbers, measured side by side on this machine: ``make bench``.

Each section runs in a process of its own on an empty database of its own. What is compared is measured in turns within
one run, so that a busy machine slows both sides alike.
"""
