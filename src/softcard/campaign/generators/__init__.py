"""Program generators: each program is determined by the generator's version and a seed, on every machine."""
