"""`mercer app`: a page in the browser for people who do not program.

One server on this machine, processes that work for it, one folder with everything.

- **Server** (`server.py`, `service.py`, Starlette and uvicorn): answers quickly and computes nothing; it never imports
  pandas and the numerical libraries. It listens on 127.0.0.1 alone.
- **Guard** (`guard.py`): before any page is reached, the host must be ours (no name that leads here by another way),
  the path must begin with the random token, what changes something must come from our own pages (`Origin`), and nothing
  may be embedded elsewhere. Every answer carries a policy that lets the browser load nothing from outside.
- **Store** (`store.py`): one folder, a folder in it for each table and each model, named by random numbers; the name of
  a user's file is only ever text. Documents are JSON, models are Mercer's own files; nothing is ever unpickled. Each
  document is written whole or not at all, so that a killed server finds after its restart what was finished, under the
  same address. The folder is deleted on Ctrl-C, what is in it after a day.
- **Jobs** (`jobs.py`): reading, searching, forecasting and predicting happen in other processes (`worker.py`,
  `tasks.py`). There are two lanes: quick jobs share a process, a search has one of its own, begun beforehand so that
  nobody waits for imports. A process that dies, hangs or eats all memory is a sentence for the user and no harm to the
  server. A page that waits shows how many are before it. Stopping is Ctrl-C for the search: it goes on with the best
  so far. When the server dies, its processes see the end of their input and die too.
- **Progress** (`live.py`): a search writes how far it is to a small file, with the picture of the best kernel so far as
  numbers; the page asks for it twice a second. A closed tab loses nothing, as nothing depends on it.
- **Pages** (`pages.py`, `forms.py`, `templates`): plain HTML forms; the script (`app.js`) only uploads, asks how far
  the work is, and draws; the drawing itself is that of the report (`report/templates/chart.js`). A problem is a
  sentence beside the field that it is about.

What a search does is the work of `mercer discover` (`cli/learn.py`), a forecast that of `mercer forecast`: same notes,
same report, same files.
"""
