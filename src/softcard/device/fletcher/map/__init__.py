"""Register maps of Fletcher designs, from Arrow schemas: layout, names, checks."""
