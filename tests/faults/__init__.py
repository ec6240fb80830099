"""Kills, stalls and cuts off real worker processes, and checks what is left of their forks."""
