"""What federico costs, beside what the machine can do and what plain code takes."""
