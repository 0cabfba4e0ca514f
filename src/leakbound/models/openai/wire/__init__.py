"""What is sent to an OpenAI-compatible endpoint and read from it: `http_request_for` makes the HTTP
request of a request to a model, with the function that reads its reply.
"""
