//! The example of docs/data.md works as printed.

use dpopt_data::{BadCells, EncodingOptions, Format, ReadOptions, Schema, open_bytes};

fn block(page: &str, language: &str) -> String {
    let start = page.find(&format!("```{language}\n")).expect("the page has the block") + language.len() + 4;
    let end = start + page[start..].find("```").expect("the block ends");
    page[start..end].to_string()
}

#[test]
fn the_bounds_file_and_the_table_of_the_page_fit_together() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data.md")).unwrap();
    let mut schema = Schema::from_toml(&block(&page, "toml")).unwrap();
    assert_eq!(schema.options, EncodingOptions::default(), "the page calls these the defaults");
    let table = open_bytes(block(&page, "csv").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let layout = schema.resolve(table.columns(), Some("income")).unwrap();
    assert_eq!(layout.unbounded(), ["hours"]);
    assert!(layout.undeclared.is_empty());
    assert_eq!(layout.ignored, ["record_id"]);
    schema.set_bounds("hours", 0.0, 80.0).unwrap();
    let encoder = dpopt_data::Encoder::new(&schema.resolve(table.columns(), Some("income")).unwrap()).unwrap();
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    assert_eq!(examples.targets, [-1.0, 1.0]);
    assert!(examples.rows.nonzeros() > 20);
}
