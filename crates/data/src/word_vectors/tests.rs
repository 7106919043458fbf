//! Files of every kind, honest and not, and exact numbers.

use super::*;
use proptest::prelude::*;
use std::io::Write;

fn read(text: &str) -> Result<WordVectors, DataError> {
    WordVectors::from_bytes("v.txt", text.as_bytes().to_vec())
}

fn pooled(vectors: &WordVectors, text: &str) -> Vec<f64> {
    let (mut features, mut pooled) = (crate::text::TextFeatures::default(), Pooled::default());
    features.read(text.as_bytes(), crate::cell::Rules::ByValue);
    vectors.pool(&features.tokens, &mut pooled);
    pooled.vector
}

const SMALL: &str = "the 1 0 0\nof 0 2 0\ncat 0 0 3\ndog 1 1 3\n2004 2 2 2\n";

#[test]
fn both_formats_also_zipped_say_the_same() {
    let glove = read(SMALL).unwrap();
    let word2vec = read(&format!("5 3\n{SMALL}")).unwrap();
    let tabs = read(&SMALL.replace(' ', "\t").replace('\n', " \r\n")).unwrap();
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    zipped.write_all(SMALL.as_bytes()).unwrap();
    let zipped = WordVectors::from_bytes("v.gz", zipped.finish().unwrap()).unwrap();
    assert_eq!((glove.words(), glove.dimension()), (5, 3));
    assert_eq!(zipped.fingerprint(), glove.fingerprint());
    assert_ne!(word2vec.fingerprint(), glove.fingerprint());
    for other in [&word2vec, &tabs, &zipped] {
        assert_eq!(pooled(other, "The cat"), pooled(&glove, "the CAT"));
    }
}

#[test]
fn words_are_those_of_texts_and_the_first_counts() {
    let vectors = read("The 1 0\nthe 9 9\n2004 0 1\ndon't 2 1\ns 1 2\na-b 3 3\n$ 2 5\n").unwrap();
    assert_eq!(vectors.words(), 5);
    assert_eq!(pooled(&vectors, "1999"), pooled(&vectors, "2004"));
    assert_eq!(pooled(&vectors, "don't"), pooled(&vectors, "DONT"));
    assert_ne!(pooled(&vectors, "€"), [0.0, 0.0]);
    assert_ne!(pooled(&vectors, "don't"), [0.0, 0.0]);
    assert_eq!(pooled(&vectors, "nothing of that"), [0.0, 0.0]);
    // a word with a space in it is none of a text; a further number is a mistake
    assert_eq!(read("a 1 2\n. . 3 4\nb 5 6\n").unwrap().words(), 2);
    assert!(read("a 1 2\nb 3 4 5\n").is_err());
}

/// Three words, worked out by hand in other arithmetic: probabilities by Zipf and Mandelbrot, weights, mean, and moments whose fourth root is taken away.
#[test]
fn a_text_is_the_weighted_sum_of_its_words_less_their_mean() {
    let vectors = read("the 4 0\nof 0 0\ncat 0 2\n").unwrap();
    let p: Vec<f64> = [2.7f64, 3.7, 4.7].iter().map(|r| 1.0 / r).collect();
    let all: f64 = p.iter().sum();
    let p: Vec<f64> = p.iter().map(|p| p / all).collect();
    let a: Vec<f64> = p.iter().map(|p| 1e-2 / (1e-2 + p)).collect();
    let total: f64 = (0..3).map(|i| p[i] * a[i]).sum();
    let mean = [4.0 * p[0] * a[0] / total, 2.0 * p[2] * a[2] / total];
    let words = [[4.0, 0.0], [0.0, 0.0], [0.0, 2.0]].map(|w| [w[0] - mean[0], w[1] - mean[1]]);
    let moment = |i: usize, j: usize| (0..3).map(|w| p[w] * a[w] * a[w] * words[w][i] * words[w][j]).sum::<f64>();
    let (x, y, z) = (moment(0, 0), moment(0, 1), moment(1, 1));
    // eigenvalues and vectors of a symmetric 2×2
    let (half, root) = (0.5 * (x + z), (0.25 * (x - z) * (x - z) + y * y).sqrt());
    let values = [half + root, half - root];
    let expected = |text: [f64; 3]| {
        let sum = [0, 1].map(|d| (0..3).map(|w| text[w] * a[w] * words[w][d]).sum::<f64>());
        let mut out = [0.0; 2];
        for value in values {
            let direction = [y, value - x];
            let square = direction[0] * direction[0] + direction[1] * direction[1];
            let along = (sum[0] * direction[0] + sum[1] * direction[1]) / square;
            let factor = (value / values[0] + FLOOR).powf(-WHITENING);
            out[0] += factor * along * direction[0];
            out[1] += factor * along * direction[1];
        }
        let norm = (out[0] * out[0] + out[1] * out[1]).sqrt();
        [out[0] / norm, out[1] / norm]
    };
    for (text, counts) in
        [("cat", [0.0, 0.0, 1.0]), ("the of The the the", [2.0, 1.0, 0.0]), ("of cat", [0.0, 1.0, 1.0])]
    {
        let (found, expected) = (pooled(&vectors, text), expected(counts));
        assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-9), "{text}: {found:?} {expected:?}");
    }
    assert!((vectors.moments().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(vectors.moments().is_sorted_by(|a, b| a >= b));
}

#[test]
fn an_alphabet_is_no_order_of_frequency() {
    let vectors = read("a 1 0\nb 0 1\nc 1 2\nd 0 3\n").unwrap();
    assert!(vectors.weights.iter().all(|w| *w == vectors.weights[0]));
    let vectors = read("b 0 1\na 1 0\nc 1 2\nd 0 3\n").unwrap();
    assert!(vectors.weights.is_sorted() && vectors.weights[0] < vectors.weights[3]);
}

#[test]
fn hostile_files_are_refused_in_words_that_do_not_quote_them() {
    let long = format!("secret {}\n", "1 ".repeat(600_000));
    let wide = format!("2 {}\nsecret 1 2\n", u64::MAX);
    let huge = format!("secret 1e38 -1e38\nother -1e38 1e38\n{}", "x 1 2\n".repeat(3));
    for (text, expected) in [
        ("", "holds no vectors"),
        ("\n\n", "line 1 does not show 2 to 4096 numbers"),
        ("secret\n", "line 1 does not show"),
        ("secret 1\nother 2\n", "line 1 does not show"),
        (&long, "longer than 1 MiB"),
        (&wide, "line 1 does not show"),
        ("3 2\nsecret 1 2\nother 2 1\n", "announces 3 words, but 2 lines follow"),
        ("1 2\nsecret 1 2\nother 2 1\n", "announces 1 words, but 2 lines follow"),
        ("2 3\nsecret 1 2\nother 2 1\n", "line 2 has 3 fields, not a word and 3 numbers"),
        ("secret 1 2\nother 1\n", "line 2 has 2 fields"),
        ("secret 1 2\n\nother 1 2\n", "line 2 has 0 fields"),
        ("secret 1 nan\nother 1 2\n", "line 1 holds a value that is not a finite number"),
        ("secret 1 inf\nother 1 2\n", "not a finite number"),
        ("secret 1 1e39\nother 1 2\n", "not a finite number"),
        ("secret 1 2x\nother 1 2\n", "not a finite number"),
        ("secret 1 2\nother 1 2\n", "all equal"),
        ("secret 0 0\nother 0 0\n", "all equal"),
        ("a,b,secret\n1,2,3\n", "line 1 does not show"),
        ("-- 1 2\n++ 2 3\n", "none of its words can occur in a text"),
    ] {
        let message = read(text).map(|_| ()).expect_err(&text[..text.len().min(40)]).to_string();
        assert!(message.contains(expected), "{}: {message}", &text[..text.len().min(40)]);
        assert!(!message.contains("secret") && !message.contains('\n'), "{message}");
    }
    // large, but numbers that there are
    let vector = pooled(&read(&huge).unwrap(), "secret x");
    assert!(vector.iter().all(|v| v.is_finite()));
    let zipped = WordVectors::from_bytes("v", b"\x1f\x8b\x08\0garbage".to_vec());
    assert!(matches!(zipped, Err(DataError::DamagedGzip { .. })));
    assert!(matches!(WordVectors::open("/nowhere/v.txt"), Err(DataError::Unreadable { .. })));
}

proptest! {
    /// Whatever a file holds, it is refused or gives vectors of norm 1 or 0.
    #[test]
    fn any_file_gives_bounded_vectors_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        lines in prop::collection::vec(("[a-cA-C' .$0-9]{0,4}", prop::collection::vec(prop::num::f32::ANY, 0..4)), 0..12),
        text in "[a-c' 0-9$]{0,20}",
    ) {
        let spelt: String = lines.iter().map(|(word, values)| {
            let values: Vec<String> = values.iter().map(f32::to_string).collect();
            format!("{word} {}\n", values.join(" "))
        }).collect();
        for bytes in [bytes, spelt.into_bytes()] {
            if let Ok(vectors) = WordVectors::from_bytes("v", bytes) {
                let norm: f64 = pooled(&vectors, &text).iter().map(|v| v * v).sum();
                prop_assert!(norm == 0.0 || (norm - 1.0).abs() < 1e-9, "{norm}");
            }
        }
    }

    /// Values of any size in a file of the right form.
    #[test]
    fn any_numbers_give_bounded_vectors(values in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO | prop::num::f32::SUBNORMAL, 9)) {
        let text: String = values.chunks(3).zip(["one", "two", "three"]).map(|(v, w)| format!("{w} {} {} {}\n", v[0], v[1], v[2])).collect();
        if let Ok(vectors) = read(&text) {
            let norm: f64 = pooled(&vectors, "one three").iter().map(|v| v * v).sum();
            prop_assert!(norm == 0.0 || (norm - 1.0).abs() < 1e-9, "{norm}");
        }
    }
}
