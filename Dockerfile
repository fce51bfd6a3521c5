# ViTScope's page, for those who host it themselves:
#   docker build -t vitscope . && docker run --rm -p 7860:7860 vitscope
# A volume at /home/user/.cache/huggingface keeps models that were downloaded.
FROM python:3.11-slim

# OpenCV reads libGL and GLib from the system; a slim image has neither.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgl1 libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home user
WORKDIR /home/user/vitscope
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY --chown=user . .
USER user

ENV GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=7860
EXPOSE 7860
CMD ["python", "app.py"]
