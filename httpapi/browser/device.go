package browser

import "strings"

// Parts of a User-Agent, and what a person calls the browser or the device. The
// first match counts: browsers also name the browsers that they imitate.
var (
	browserParts = [][2]string{
		{"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"}, {"Edg/", "Edge"}, {"EdgA/", "Edge"}, {"EdgiOS/", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	deviceParts = [][2]string{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"}, {"Macintosh", "macOS"}, {"Linux", "Linux"},
	}
)

// DeviceName returns a name for the login of a browser, such as "Safari on
// iPhone". It contains nothing of the User-Agent but known words.
func DeviceName(userAgent string) string {
	name, device := find(browserParts, userAgent), find(deviceParts, userAgent)
	switch {
	case name == "" && device == "":
		return "browser"
	case name == "":
		return "Browser on " + device
	case device == "":
		return name
	}
	return name + " on " + device
}

func find(parts [][2]string, text string) string {
	for _, p := range parts {
		if strings.Contains(text, p[0]) {
			return p[1]
		}
	}
	return ""
}
