"""What people and other tools read: register maps in their formats, and the tables of rules in the docs."""
