"""How answers look: tables for people, JSON and YAML for programs."""
