/** A QR code on the page, dark on light in any scheme, as cameras want it. Contract: "Authentication". */
import { useMemo } from 'preact/hooks'
import { qrCode } from './qr.ts'

/** Light modules around it (ISO/IEC 18004: four). */
const QUIET = 4

export function QrCode({ text, label }: { text: string; label: string }) {
  const code = useMemo(() => qrCode(text), [text])
  if (code === undefined) return null
  const size = code.length + 2 * QUIET
  const dark = code.flatMap((row, down) =>
    row.flatMap((isDark, across) => (isDark ? [`M${across + QUIET} ${down + QUIET}h1v1h-1z`] : [])),
  )
  return (
    <svg
      class="qr"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label={label}
      shape-rendering="crispEdges"
    >
      <path d={dark.join('')} />
    </svg>
  )
}
