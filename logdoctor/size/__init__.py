"""How much memory a model's cache takes, and how many users fit: arithmetic over config files.

Nothing is imported here: who only asks whether a model is known pays for `names` alone.
"""
