"""Reports on a program's memory: tables, a picture over time, and swap plans under a limit."""
