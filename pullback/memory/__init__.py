"""The memory of a program for who looks at it: tables, a picture over time, and what to move out under a limit."""
