"""What both programs stand on: names, logs, settings layers, HTTP pages, identity; no decision of any kind."""
