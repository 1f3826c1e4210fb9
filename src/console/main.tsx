/** Starts the owner's page. Contract: "Owner API"; it speaks nothing else. */
import { render } from 'preact'
import { App } from './app.tsx'

const place = document.querySelector('#console')
if (place !== null) render(<App />, place)
