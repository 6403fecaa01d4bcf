// What went wrong is told in one place of the page.
import { $ } from '../../view/assets/elements.mjs';

export function showError(text = '') {
  $('fault').textContent = text;
  $('fault').hidden = !text;
}

// What a button does may fail; then it says why, and the page stays as it is.
export const withErrorMessage =
  action =>
  async (...args) => {
    showError();
    try {
      return await action(...args);
    } catch (error) {
      showError(error.message);
      return null;
    }
  };
