"""Systems behind HTTP: how a service is asked (`HttpConfig`), `HttpSystem`, and stores with
records.
"""
