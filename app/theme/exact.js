// Typing the whole name of a class and pressing Enter chooses that class. Gradio by itself takes the
// first one in the list that holds what was typed: "flagpole" for "pole".
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || !event.target.matches('#vs-target input, #vs-against input')) return;
  const typed = event.target.value.trim().toLowerCase();
  const names = (option) => {
    const whole = (option.getAttribute('aria-label') || option.textContent).trim().toLowerCase();
    return [whole, ...whole.split(',').map((name) => name.trim())];
  };
  const options = [...document.querySelectorAll('[role=option]')];
  const exact = options.find((option) => names(option)[0] === typed)
    || options.find((option) => names(option)[1] === typed)
    || options.find((option) => names(option).includes(typed));
  if (!exact) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  exact.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, cancelable: true }));
  event.target.blur();
}, true);
