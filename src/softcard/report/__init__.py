"""Reports: register maps and file contents as text or data, and tables of rules for the documentation."""
