(() => {
  'use strict';
  /*{{script}}*/
})();
