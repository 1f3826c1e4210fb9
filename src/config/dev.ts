/**
 * Owns the settings of the local demo, `usher dev`. Contract: "Parties": it starts one of each, with files it
 * writes itself.
 */
import { defineSettings, filePath, optional } from './settings.ts'

export const DEV_SETTINGS = defineSettings({
  title: 'usher dev',
  settings: {
    envoyBin: optional('ENVOY_BIN', filePath, {
      description: 'The Envoy to run; left out, one is looked for on the PATH, then fetched with pip.',
    }),
  },
})
