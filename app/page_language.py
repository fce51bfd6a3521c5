"""The page's language in the browser: chosen before, else the browser's own, and how to switch."""

from __future__ import annotations

import json
from dataclasses import asdict

from app.texts import LANGUAGES
from app.texts.languages import ENGLISH

SWITCH = "(code) => { window.vitscopeLanguage(code); }"
CURRENT = "() => window.vitscopeLanguage()"


def at_load(fixed: str | None) -> str:
    """The script that the page runs first. fixed: the language where none was chosen yet."""
    languages = {code: asdict(language) for code, language in LANGUAGES.items()}
    return (
        _AT_LOAD.replace("LANGUAGES", json.dumps(languages))
        .replace("FIXED", json.dumps(fixed))
        .replace("ENGLISH", json.dumps(ENGLISH))
    )


_AT_LOAD = """() => {
  const languages = LANGUAGES;
  const known = (code) => {
    const asked = String(code || '').replaceAll('_', '-').toLowerCase() + '-';
    let found = ENGLISH, length = 0;
    for (const [lang, { codes }] of Object.entries(languages)) for (const own of codes) {
      if (asked.startsWith(own + '-') && own.length > length) [found, length] = [lang, own.length];
    }
    return found;
  };
  window.vitscopeLanguage = (want) => {
    const fixed = FIXED;
    const chosen = want || new URLSearchParams(location.search).get('lang')
      || localStorage.getItem('vitscope-lang') || fixed || navigator.language;
    const code = known(chosen);
    if (want) localStorage.setItem('vitscope-lang', code);
    const core = performance.getEntriesByType('resource').map(entry => entry.name)
      .find(name => /\\/assets\\/core-[^/]*\\.js/.test(name));
    if (core) import(core).then(module => module.changeLocale(languages[code].gradio));
    return code;
  };
  window.vitscopeLanguage();
  document.addEventListener('focusin', (event) => {
    if (event.target.matches('input[role=combobox]:not([readonly])')) event.target.select();
  });
}"""
"""Gradio by itself knows only zh-CN and zh-TW of the Chinese codes, and forgets a choice. Besides,
typing into a menu searches at once instead of adding to the name that stands there."""
