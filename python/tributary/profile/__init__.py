"""Would it pay? `python -m tributary.profile script.py` says so, from some steps of a script on one machine."""
