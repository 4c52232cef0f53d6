// Makes stars.arrow: a catalogue of stars that were drawn at random, from a seed, along the bands of the
// Hertzsprung-Russell diagram. With --check, compares the file with what would be made.
//
// node demo/make.mjs [--check]

import { readFileSync, writeFileSync } from "node:fs";

import { Float32, Table, Utf8, Dictionary, Int8, tableToIPC, vectorFromArray } from "apache-arrow";

const ROWS = 4000;

let seed = 2027;
/** A number from 0 to 1. */
function random() {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}
/** A number around 0, most often within 1 of it. */
const spread = () => random() + random() + random() + random() - 2;
const rounded = (number) => Math.round(number * 1000) / 1000;

const KINDS = [
  ["main sequence", 0.78, () => {
    const color = -0.25 + 1.9 * random() ** 0.8;
    return [color, -1.5 + 9.4 * Math.max(color + 0.25, 0) ** 0.85 + 0.45 * spread()];
  }],
  ["giant", 0.15, () => [1 + 0.28 * spread(), 0.8 + 0.9 * spread()]],
  ["white dwarf", 0.07, () => {
    const color = -0.1 + 0.7 * random();
    return [color, 11 + 4.2 * color + 0.35 * spread()];
  }],
];

const stars = Array.from({ length: ROWS }, () => {
  let choice = random();
  const [kind, , place] = KINDS.find(([, share]) => (choice -= share) < 0) ?? KINDS[0];
  const [color, magnitude] = place();
  // One star in twenty has no distance that anybody has measured.
  const distance = random() < 0.05 ? null : rounded(100 * random() ** (1 / 3));
  return { color: rounded(color), magnitude: rounded(magnitude), distance, kind };
});

const column = (name, type) => vectorFromArray(stars.map((star) => star[name]), type);
const table = new Table({
  color: column("color", new Float32()),
  magnitude: column("magnitude", new Float32()),
  distance: column("distance", new Float32()),
  kind: column("kind", new Dictionary(new Utf8(), new Int8(), 0)),
});
const bytes = Buffer.from(tableToIPC(table, "file"));
const file = new URL("stars.arrow", import.meta.url);
if (process.argv.includes("--check")) {
  if (!bytes.equals(readFileSync(file))) throw new Error("stars.arrow is not what demo/make.mjs makes");
} else {
  writeFileSync(file, bytes);
}
