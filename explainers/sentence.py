"""Sentences the library says to people, which a page can say in another language."""

from __future__ import annotations


class Sentence(str):
    """A plain English sentence that remembers its key and the values put into it.

    It *is* the English text, so it can be printed, logged or raised. The page looks
    ``key`` up in its own language and fills in ``values`` again.
    """

    key: str
    values: dict[str, object]

    def __new__(cls, key: str, template: str, **values: object) -> Sentence:
        self = super().__new__(cls, template.format(**values))
        self.key = key
        self.values = values
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (str(self), self.key, self.values)


def _restore(text: str, key: str, values: dict[str, object]) -> Sentence:
    sentence = Sentence(key, "{text}", text=text)
    sentence.values = values
    return sentence
