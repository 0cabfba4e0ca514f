"""From a spec to an audit that may start: loaded, built, checked and named, without a model call.

`prepare` fills a `Prepared` once; later stages read its fields and compute none of them again.
Prompts are checked here, so it draws the pairs of `design`.
"""
