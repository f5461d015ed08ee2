"""The parser as a web page and a JSON API: Gradio mounted on FastAPI, behind one doorkeeper."""
