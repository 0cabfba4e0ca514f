"""Tables and figures of papers as pages: claims, outcomes, figures and tables."""
