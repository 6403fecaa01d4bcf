// Numbers in words, and words that are searched for. No function here touches the page.

// -- Numbers in words
export function inWords(x, digits = 0) {
  if (x === null || x === undefined) return '';
  return x.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export const plural = (n, word) => `${inWords(n)} ${word}${n === 1 ? '' : 's'}`;

// -- Words that are searched for
// All of them have to be found, in any case and in any order.
export const wordsOf = text => text.toLowerCase().split(/\s+/).filter(Boolean);
export const holdsAll = (words, ...texts) => words.every(word => texts.some(text => text.includes(word)));
