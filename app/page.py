"""The page: its parts put together, and how it is served."""

from __future__ import annotations

from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from app import (
    anatomy_events,
    anatomy_tab,
    attention_events,
    attention_tab,
    choose,
    compare_events,
    compare_tab,
    cost_events,
    cost_panel,
    explain_tab,
    inside_tab,
    link_events,
    page_language,
)
from app.allocator import share_freed_memory
from app.api import add_endpoints
from app.attention_answers import Looks
from app.gate import Gate
from app.loader import Given, Loader, resolve
from app.streamed_blocks import StreamedBlocks
from app.studio import Studio
from app.texts import LANGUAGES, browser_texts
from app.texts.languages import ENGLISH
from app.theme import STYLES, head, theme
from app.widgets import Widgets
from app.wiring import connect
from explainers import methods
from explainers.models.catalogue import CATALOGUE

TITLE = "ViTScope"
VISITORS = 200
"""Sessions kept at once; the longest unused beyond that starts afresh."""

THREADS = 16
"""That answer requests; models run in others. Each holds some memory once it has drawn pictures."""


class Page:
    """The built page and what serves it. Building it loads no model and starts nothing."""

    def __init__(self, given: Given | None = None, lang: str | None = None) -> None:
        given = given or resolve("embedded")
        self.studio = Studio(Loader(given), given.name)
        self.texts = browser_texts(methods())
        self._lang = lang
        self.demo = self._build(given.name)

    def warm(self) -> None:
        """Load the first model in the background; the page is served meanwhile."""
        self.studio.models.begin(self.studio.default_model)

    def launch(self, **options: Any) -> Any:
        """Serve the page; ``options`` as in ``gr.Blocks.launch``."""
        share_freed_memory()
        return self.demo.queue(max_size=32, api_open=False).launch(
            **{**self.launch_options(), **options}
        )

    def launch_options(self) -> dict[str, Any]:
        """How the page must be served, for privacy, languages and looks."""
        return {
            "i18n": self.texts,
            "theme": theme(),
            "css_paths": STYLES,
            "head": head(),
            "js": page_language.at_load(self._lang),
            "max_file_size": "64mb",
            "show_error": False,
            "run_history": False,
            "enable_monitoring": False,
            "ssr_mode": False,
            "state_session_capacity": VISITORS,
            "app_kwargs": {"middleware": [Middleware(Gate)]},
            "footer_links": ["api", "settings"],
        }

    def _build(self, model: str) -> gr.Blocks:
        t, table, looks = self.texts, methods(), Looks(self.studio)
        with StreamedBlocks(
            title=TITLE, delete_cache=(600, 3000), analytics_enabled=False, fill_width=True
        ) as demo:
            add_endpoints(self.studio)  # first: names are given to who comes first
            with gr.Row(elem_classes="vs-head", equal_height=True):
                with gr.Column(elem_classes="vs-brand", min_width=280):
                    gr.HTML(f"<h1>{TITLE}</h1>")
                    gr.HTML(t("tagline"), elem_classes="vs-tagline")
                    gr.HTML(t("privacy"), elem_classes="vs-privacy")
                with gr.Column(elem_classes="vs-language", scale=0, min_width=176):
                    lang = gr.Dropdown(
                        [(known.name, code) for code, known in LANGUAGES.items()],
                        value=self._lang or ENGLISH,
                        label=" / ".join(known.word for known in LANGUAGES.values()),
                        filterable=False,
                        elem_id="vs-lang",
                    )
            chooser = choose.build(t, self._menu(model), model)
            with gr.Tabs(elem_id="vs-tabs") as tabs:
                places = {}
                with gr.Tab(t("tab_explain"), id="explain") as places["explain"]:
                    tab = explain_tab.build(t, table)
                with gr.Tab(t("tab_attention"), id="attention") as places["attention"]:
                    self._attention = attention_tab.build(t, looks)
                with gr.Tab(t("tab_inside"), id="inside") as places["inside"]:
                    inside = inside_tab.build(t)
                with gr.Tab(t("tab_anatomy"), id="anatomy") as places["anatomy"]:
                    anatomy = anatomy_tab.build(t)
                    costs = cost_panel.build(t)
                with gr.Tab(t("tab_compare"), id="compare") as places["compare"]:
                    compare = compare_tab.build(t, table, self._menu(model))
            file = gr.DownloadButton(visible="hidden")
            lang.change(None, lang, None, js=page_language.SWITCH, api_visibility="private")
            self.widgets = Widgets(self.studio, t, lang, chooser, tab, inside, file)
            attention_events.connect(self.widgets, self._attention, looks)
            compare_events.connect(self.widgets, compare, places["compare"])
            drawn = anatomy_events.connect(self.widgets, anatomy)
            cost_events.connect(self.widgets, anatomy, costs, drawn)
            connect(self.widgets, demo, places)
            link_events.connect(
                self.widgets, demo, chooser.links, tabs, anatomy, compare, self._attention
            )
            if self._lang is None:
                demo.load(None, None, lang, js=page_language.CURRENT, api_visibility="private")
        return demo

    def _menu(self, model: str) -> list[tuple[str, str]]:
        """The models of the list, with what is here (●) and what a download would take (○)."""
        entries = []
        for entry in CATALOGUE:
            here = entry.state() != "download"
            text = f"● {entry.name}" if here else f"○ {entry.name} · {entry.megabytes:.0f} MB"
            entries.append((text, entry.name))
        if all(name != model for _, name in entries):
            entries.insert(0, (f"● {model}", model))
        return entries
