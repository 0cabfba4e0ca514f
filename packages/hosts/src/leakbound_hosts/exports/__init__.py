"""A finished run in the formats of registries: in-toto, CycloneDX, OpenDP; verbs: `commands`."""
