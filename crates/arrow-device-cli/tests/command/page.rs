//! The page of `arrow-device inspect --html`, in a real browser.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch};

use crate::support::files::{batch, write_stream};
use crate::support::{Folder, output, skip, text};

/// Behind the page's own script: points at the first box, and writes down what a reader would see.
const LOOK: &str = r#"<script>
window.onerror = (message) => { document.body.dataset.error = message; };
const lit = () => [...document.querySelectorAll(".lit")].map((item) => item.tagName).sort().join(" ");
const boxes = [...document.querySelectorAll(".block")];
boxes[0].dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
const shapes = boxes.map((box) => box.getBoundingClientRect());
const covers = (one, other) => one.left < other.right - 0.5 && other.left < one.right - 0.5
  && one.top < other.bottom - 0.5 && other.top < one.bottom - 0.5;
Object.assign(document.body.dataset, {
  lit: lit(),
  boxes: boxes.length,
  shared: document.querySelectorAll(".block.shared").length,
  unseen: shapes.filter((shape) => shape.width < 40 || shape.height < 30).length,
  covered: shapes.filter((one, i) => shapes.some((other, j) => i < j && covers(one, other))).length,
  outside: shapes.filter((shape) => shape.right > innerWidth || shape.left < 0).length,
  sideways: document.documentElement.scrollWidth > innerWidth,
  requests: performance.getEntriesByType("resource").length,
});
</script>"#;

fn browser(page: &Path, what: &[&str]) -> Option<Vec<u8>> {
    let profile = Folder::new();
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--window-size=1280,1000",
    ]);
    command.arg(format!("--user-data-dir={}", text(&profile.path("profile"))));
    let output = command.args(what).arg(format!("file://{}", text(page))).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            skip("chromium", &format!("there is no chromium: {error}"));
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// Two batches with a dictionary that they share, on the host.
fn page(folder: &Folder) -> std::path::PathBuf {
    let (input, page) = (folder.path("<b>in & out.arrows"), folder.path("page.html"));
    let batches = [batch(0, 3000), batch(3000, 5)].map(|batch| {
        let keys: DictionaryArray<Int8Type> =
            (0..batch.num_rows()).map(|row| ["low", "high"][row % 2]).collect();
        let level: ArrayRef = Arc::new(keys);
        let columns = batch.columns().iter().cloned().chain([level]);
        RecordBatch::try_from_iter(["number", "word", "level"].into_iter().zip(columns)).unwrap()
    });
    write_stream(&input, &batches);
    output(&["inspect", text(&input), "--batches", "2", "--html", text(&page)]);
    page
}

#[test]
fn a_browser_shows_every_buffer_and_lights_up_what_belongs_together() {
    let folder = Folder::new();
    let page = page(&folder);
    let html = std::fs::read_to_string(&page).unwrap();
    for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(outside), "the page needs `{outside}`");
    }
    let looking = folder.path("looking.html");
    std::fs::write(&looking, html.replace("</body>", &format!("{LOOK}</body>"))).unwrap();
    let Some(dom) = browser(&looking, &["--dump-dom"]) else { return };
    let dom = String::from_utf8(dom).unwrap();
    let body = dom.split("<body").nth(1).unwrap().split('>').next().unwrap();
    let seen = |name: &str| {
        let value = body.split(&format!("data-{name}=\"")).nth(1);
        value.and_then(|value| value.split('"').next()).map(str::to_owned)
    };
    assert_eq!(seen("error"), None, "{body}");
    // In the first batch a bitmap and values of numbers, offsets and data of words, and keys; in
    // the second one no number is null. The offsets and the data of the dictionary are there once,
    // for both.
    let expected =
        [("boxes", 5 + 4 + 2), ("shared", 2), ("unseen", 0), ("covered", 0), ("outside", 0)];
    for (name, count) in expected {
        assert_eq!(seen(name).unwrap(), count.to_string(), "{name}: {body}");
    }
    assert_eq!(
        (seen("sideways").unwrap().as_str(), seen("requests").unwrap().as_str()),
        ("false", "0")
    );
    // A chip, one box at least, and the rows of the table.
    let lit = seen("lit").unwrap();
    for tag in ["DIV", "SPAN", "TR"] {
        assert!(lit.split(' ').any(|found| found == tag), "{tag} is not lit: {lit}");
    }
    assert!(dom.contains("&lt;b&gt;in &amp; out.arrows</h1>"), "the name is markup");
}

#[test]
fn a_picture_of_the_page_has_something_on_it() {
    let folder = Folder::new();
    let (page, picture) = (page(&folder), folder.path("page.png"));
    let Some(_) = browser(&page, &[&format!("--screenshot={}", text(&picture))]) else { return };
    let png = std::fs::read(&picture).unwrap();
    assert_eq!(&png[1..4], b"PNG");
    // An empty page of this size is some 5 kB.
    assert!(png.len() > 30_000, "{} bytes", png.len());
}
