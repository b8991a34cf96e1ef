// Takes a file in, asks how far the work is, and draws. Everything else is plain HTML.
"use strict";
(() => {
  const find = (name, root = document) => root.querySelector(`[data-is=${name}]`);

  // ------------------------------------------------------------------------------------------------- taking a file in

  const form = document.getElementById("upload");
  if (form) {
    const file = document.getElementById("file"), drop = document.getElementById("drop");
    const problem = document.getElementById("problem-file"), sending = document.getElementById("sending");

    const refuse = sentence => {
      problem.textContent = sentence;
      problem.hidden = false;
      sending.hidden = true;
      file.setAttribute("aria-invalid", "true");
      file.value = "";
      file.focus();
    };

    const send = chosen => {
      if (!chosen) return;
      problem.hidden = true;
      file.removeAttribute("aria-invalid");
      const most = Number(form.dataset.most);
      if (chosen.size > most) { refuse(`“${chosen.name}” is larger than ${Math.floor(most / 1048576)} MB, the most that this page takes. Use “mercer discover”, or fewer rows.`); return; }
      sending.hidden = false;
      const request = new XMLHttpRequest();
      request.open("POST", `${form.dataset.to}?name=${encodeURIComponent(chosen.name)}`);
      request.responseType = "json";
      request.upload.onprogress = event => { document.getElementById("sent").value = event.total ? event.loaded / event.total : 0; };
      request.onload = () => {
        if (request.status === 201) location.assign(request.response.place);
        else refuse((request.response && request.response.problem) || "The file was not taken. Try again.");
      };
      request.onerror = () => refuse("The file could not be sent. Is Mercer still running? It may also have changed while it was read.");
      request.setRequestHeader("content-type", "application/octet-stream");
      request.send(chosen);
    };

    form.addEventListener("submit", event => event.preventDefault());
    file.addEventListener("change", () => send(file.files[0]));
    for (const name of ["dragover", "dragenter"]) addEventListener(name, event => { event.preventDefault(); drop.classList.add("over"); });
    addEventListener("dragleave", event => { if (!event.relatedTarget) drop.classList.remove("over"); });
    addEventListener("drop", event => {
      event.preventDefault();
      drop.classList.remove("over");
      send(event.dataTransfer.files[0]);
    });
  }

  // ------------------------------------------------------------------------------------------------------- pictures

  document.querySelectorAll("svg[data-chart]").forEach(svg => {
    const spec = JSON.parse(document.getElementById(svg.dataset.chart).textContent), draw = () => mercerChart.draw(svg, spec);
    draw();
    addEventListener("resize", draw);
  });

  // -------------------------------------------------------------------------------------------------------- waiting

  const STAGES = { starting: "Getting ready …", reading: "Reading the table …", searching: "Looking for what explains it …", explaining: "Writing the report …" };
  const waiting = document.querySelector("[data-wait]");
  if (waiting) {
    let version = -1, spec = null, silent = 0;
    const say = (name, text) => {
      const element = find(name, waiting);
      if (element && element.textContent !== text) element.textContent = text;
    };

    const show = state => {
      if (state.status === "reading") say("stage", state.position ? `${state.position === 1 ? "One file is" : `${state.position} files are`} before this one.` : state.ready ? "Reading the table …" : "Getting ready. The first time on a machine this takes about a minute …");
      if (state.status === "waiting" && state.position) say("stage", state.position === 1 ? "One search is before this one." : `${state.position} searches are before this one.`);
      const progress = state.progress;
      if (!progress) return;
      say("stage", STAGES[progress.stage] || "");
      if (!find("stop", waiting).querySelector("[disabled]")) find("stop", waiting).querySelector("button").textContent = "Stop, and keep the best so far";
      find("stop", waiting).hidden = progress.stage === "explaining"; // the search has ended
      const bar = find("bar", waiting);
      if (progress.total && progress.stage === "searching") {
        bar.max = progress.total;
        bar.value = progress.done;
        const left = progress.seconds_left === null ? "" : `, ${Math.ceil(progress.seconds_left)} s left`;
        say("count", `step ${progress.step}: ${progress.done} of ${progress.total} ${progress.counted}${left}`);
      } else if (bar) bar.removeAttribute("value");
      if (progress.kernel) {
        find("best", waiting).hidden = false;
        say("kernel", progress.kernel);
        say("score", progress.score === null ? "" : `score ${progress.score.toFixed(1)}, lower is better`);
      }
      const drawn = progress.picture && (progress.picture.kind !== "scatter" || progress.picture.points.x.length);
      if (drawn && progress.version !== version) {
        version = progress.version;
        spec = progress.picture;
        find("figure", waiting).hidden = false;
        say("caption", spec.line ? `${spec.y} along ${spec.x.name}: data, best fit so far and its 95 % band.` : `${spec.y}: ${spec.kind === "scatter" ? "observed, against what the other rows predict" : "the data"}.`);
        mercerChart.draw(find("picture", waiting), spec);
      }
    };

    const ask = async () => {
      try {
        const answer = await fetch(waiting.dataset.wait);
        const state = await answer.json();
        silent = 0;
        if (!waiting.dataset.while.split(" ").includes(state.status)) { location.reload(); return; }
        show(state);
      } catch {
        silent += 1;
        if (silent > 4) say("stage", "Mercer does not answer. Is it still running? What was finished is kept.");
      }
      setTimeout(ask, silent ? 2000 : waiting.tagName === "P" ? 150 : 500);
    };
    addEventListener("resize", () => { if (spec) mercerChart.draw(find("picture", waiting), spec); });
    ask();
  }

  // ---------------------------------------------------------------------------------------------- what takes a moment

  document.querySelectorAll("form[data-once]").forEach(each => each.addEventListener("submit", () => {
    const button = each.querySelector("button");
    setTimeout(() => {
      button.disabled = true;
      button.textContent = "Working …";
    });
  }));

  document.querySelectorAll("form[data-confirm]").forEach(each => each.addEventListener("submit", event => {
    if (!confirm(each.dataset.confirm)) event.preventDefault();
  }));

  // The column to explain is not offered to explain itself.
  const target = document.getElementById("field-target");
  if (target) {
    const offer = () => document.querySelectorAll("input[name=inputs]").forEach(each => { each.closest("label").hidden = each.value === target.value; });
    target.addEventListener("change", offer);
    offer();
    document.querySelectorAll("button[data-check]").forEach(button => button.addEventListener("click", () => {
      document.querySelectorAll("input[name=inputs]").forEach(each => { each.checked = button.dataset.check === "all"; });
    }));
  }

  // A link to a field that is folded away unfolds it.
  const unfold = () => {
    const field = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1))), folded = field && field.closest("details");
    if (folded) { folded.open = true; field.focus(); field.scrollIntoView({ block: "center" }); }
  };
  addEventListener("hashchange", unfold);
  unfold();

  const wrong = document.querySelector("[aria-invalid=true]");
  if (wrong) addEventListener("load", () => setTimeout(() => wrong.focus())); // after the jump to a part of the page
})();
