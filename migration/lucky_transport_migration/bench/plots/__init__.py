"""The charts of a report, as inline SVG."""
