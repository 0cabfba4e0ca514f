"""Groups of options that several verbs take; `spec_options` has those of an audit."""
