/**
 * Owns which icons of a server reach a client: those that MCP allows a client to fetch, each member of its
 * type, because the SDK's schemas throw a whole list away for an odd one. Contract: "Agreement (claim_token,
 * beat 3)" (what strangers write is never obeyed).
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { isText } from '../answers/as-written.ts'

const ICONS_MAX = 16
const SRC_LENGTH_MAX = 65_536
const THEMES: ReadonlySet<Json | undefined> = new Set(['light', 'dark'])

/** The icons that a client may fetch, by https or from the text itself; none for anything else. */
export function safeIcons(icons: Json | undefined): JsonObject[] {
  if (!Array.isArray(icons)) return []
  return icons.flatMap(readIcon).slice(0, ICONS_MAX)
}

function readIcon(icon: Json): JsonObject[] {
  if (!isJsonObject(icon)) return []
  const { src, mimeType, sizes, theme } = icon
  if (!isText(src) || src.length > SRC_LENGTH_MAX || !isFetched(src)) return []
  return [
    {
      src,
      ...(isText(mimeType) ? { mimeType } : {}),
      ...(Array.isArray(sizes) && sizes.every(isText) ? { sizes } : {}),
      ...(THEMES.has(theme) ? { theme: theme! } : {}),
    },
  ]
}

/** MCP: a client takes no icon of another scheme. */
function isFetched(src: string): boolean {
  const url = URL.parse(src)
  if (url === null || url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || (url.protocol === 'data:' && /^data:image\//i.test(src))
}
