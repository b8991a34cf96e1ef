"""What was learned, as frozen values: predictions, explanations, reports and files are functions of them."""
