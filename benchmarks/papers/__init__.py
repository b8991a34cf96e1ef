"""The papers that Mercer is built on, row by row: what they print, what Mercer gets, and docs/papers.md of both."""
