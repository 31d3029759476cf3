"""Answers in words or JSON: commercial services, chat servers, and vision-language models on this machine."""
