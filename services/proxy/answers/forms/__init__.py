"""The two forms of an answer, streamed and whole, by dialect: each can be made from the other. Pure."""

from services.proxy.answers.forms.anthropic import AnthropicForm
from services.proxy.answers.forms.base import Event as Event
from services.proxy.answers.forms.base import Form
from services.proxy.answers.forms.chat import ChatForm
from services.proxy.answers.forms.completions import CompletionsForm
from services.proxy.answers.forms.ollama import OllamaForm
from services.proxy.answers.forms.responses import ResponsesForm

# By `Dialect.name`. What is not here (embeddings, llama-server's own route) is not cached.
FORMS: dict[str, Form] = {
    "openai_chat": ChatForm(),
    "openai_completions": CompletionsForm(),
    "openai_responses": ResponsesForm(),
    "anthropic": AnthropicForm(),
    "ollama_chat": OllamaForm(),
    "ollama_generate": OllamaForm(),
}
