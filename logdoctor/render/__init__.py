"""The plain report to text: one file per format, each with `render`."""
