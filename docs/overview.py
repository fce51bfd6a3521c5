"""Make docs/overview.png, the picture at the head of README: python docs/overview.py"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from explainers import explain, load_model, load_photo, methods
from explainers.render.sheet import contact_sheet

PHOTOS = ("lion.jpg", "rocket.jpg")  # one it knows, one it cannot know
METHODS = {
    "attention": {},
    "rollout": {},
    "integrated_gradients": {"resolution": "patch"},
    "occlusion": {"window": 3},
}

vit = load_model("embedded")
items = []
for file in PHOTOS:
    photo = load_photo(ROOT / "app/examples" / file)
    trace = vit.trace(photo)
    _, label, probability = trace.top(1)[0]
    items.append((photo, f"{label.split(',')[0]}, {probability:.0%}"))
    for name, settings in METHODS.items():
        items.append((explain(name, trace, **settings), methods()[name].title))
sheet = contact_sheet(items, columns=len(METHODS) + 1, tile=240, bars=True)
sheet.save(ROOT / "docs/overview.png", optimize=True)
