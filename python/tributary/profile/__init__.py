"""`python -m tributary.profile script.py`: predicts from some steps of a script on one machine whether it would pay."""
