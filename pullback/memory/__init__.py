"""Memory of a program for users: tables, a picture over time, and swap plans under a limit."""
