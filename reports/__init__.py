"""Reads records and draws them; measures nothing; installed as ``tk.reports``."""
