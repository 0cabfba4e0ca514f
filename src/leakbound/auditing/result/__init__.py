"""The record that every report, gate and export reads, with its sentences.

`assemble` makes an `AuditResult` of an assessment; nothing is estimated here.
"""
