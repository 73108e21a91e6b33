"""Ports at which ranks that are processes meet."""
import itertools
import os
import socket


def free_port(first=None):
    """From `first` on, or else from a place of this process' own on. Below those that Linux gives to whoever connects (from 32768 on): nobody takes it by chance."""
    for port in itertools.count(first or 10000 + os.getpid() * 64 % 20000):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
