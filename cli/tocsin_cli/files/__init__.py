"""Job files: read YAML strictly, know where everything stands, check it, plan what to change."""
