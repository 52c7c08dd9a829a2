"""Predicts from some steps of a script on one machine if the fabric would pay off.

The command is `python -m tributary.profile script.py`.
"""
