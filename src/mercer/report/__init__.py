"""Pictures of a fitted model (and, from issue B on, the report page)."""
